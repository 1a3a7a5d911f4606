"""Function words of the languages that ``lexical-v1`` analyses: words that say nothing about what a text is
about.

A list is part of the controller's identity. A change of one needs a new version.
"""

from typing import Final

STOP_WORDS: Final[dict[str, str]] = {
    "english": (
        """
        a about above after again against all am an and any are aren as at be because been before being below between both but by
        can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have
        haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me might more most
        must my myself no nor not now o of off on once only or other our ours ourselves out over own re s same shall she should
        shouldn so some such t than that the their theirs them themselves then there these they this those through to too under
        until up ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn y you
        your yours yourself yourselves
    """
    ),
    "danish": (
        """
        af alle at blev bliver da de dem den denne der deres det dette dig din disse du efter eller en end er et for fra ham han
        hans har havde hende hendes her hos hun hvad hvem hvis hvor hvordan i ikke ind jeg kan kunne man med meget men mig min
        mod ned noget nogle nu når og også om op os over på sin skal skulle som så til ud under var vi vil ville være
    """
    ),
    "dutch": (
        """
        aan al als ben bij dan dat de der deze die dit door doen een en er geen had hebben heb heeft het hem hen hier hij hoe hun
        ik in is ja je jij kan kon kunnen maar me met mij mijn moet na naar niet nog nu of om omdat ons onze ook op over te tegen
        toch toen tot u uit uw van veel voor waar wat was we wel werd wie wij worden wordt zal ze zich zij zijn zo zou
    """
    ),
    "finnish": (
        """
        ei eivät en että hän hänen he heidän ja jo joka jos jotka kuin kun me meidän mikä minä minun mitä mutta myös ne niin nyt
        oli olivat olla ollut on ovat se sen siitä sinä sinun sitä tai tämä tämän te teidän vai vain
    """
    ),
    "french": (
        """
        à ai as au aux avec avait avez avons c ce ces cet cette comme d dans de des du elle elles en est et étais était été être
        eu eux fut il ils j je l la le les leur leurs lui m ma mais me même mes moi mon n ne nos notre nous on ont ou où par pas
        pour qu quand que quel quelle qui s sa sans se sera ses si son sont sur t ta te tes toi ton tu un une vos votre vous y
    """
    ),
    "german": (
        """
        aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein dem den der des dich die dies diese dir
        doch du durch ein eine einem einen einer eines er es euch euer für gegen habe haben hat hatte hatten hier hinter ich ihm
        ihn ihr ihre im in ins ist ja jede kann kein keine können man mein mich mir mit muss nach nicht noch nun nur ob oder ohne
        sehr sein seine sich sie sind so soll über um und uns unser unter vom von vor wann war waren warum was wegen weil welche
        wem wen wenn wer werden wie wir wird wo wurde zu zum zur
    """
    ),
    "italian": (
        """
        a ad agli ai al alla alle allo anche c che chi ci come con cosa da dal dalla dei del della delle dello di dove e è ed era
        fu gli ha hanno ho i il in io l la le lei lo loro lui ma mi mia mio ne nei nel nella noi non nostro o per perché più
        quale quando quanto quella quello questa questo se sei si sia sono su sua sul sulla suo ti tra tu tuo un una uno vi voi
    """
    ),
    "norwegian": (
        """
        alle at av ble blir da de dem den denne der deres det dette din disse du eller en enn er et etter for fra ha hadde han
        hans har henne hennes her hun hva hvem hvis hvor hvordan i ikke inn jeg kan kunne man med meg men min mot må ned noe noen
        nå når og også om opp oss over på sin skal skulle som så til under ut var vi vil ville være vært
    """
    ),
    "portuguese": (
        """
        a à ao aos as às até com como da das de dela dele do dos e é ela elas ele eles em entre era essa esse esta está estava
        este eu foi for há isso isto já lhe mais mas me mesmo meu minha muito na não nas nem no nos nós nossa nosso num numa o os
        ou para pela pelo por qual quando que quem se sem ser seu sua são só também te tem teu tu tua um uma você
    """
    ),
    "russian": (
        """
        а без бы был была были было быть в вам вас весь во вот все всего вы где да для до его ее если есть еще же за здесь и из
        или им их к как какой ко когда кто ли мне мой моя мы на над нам нас наш не него нее нет ни них но о об он она они оно от
        по под при с свой себя со та так там те тебя то того тоже той только том ты у уже что чтобы эта это этой этом этот я
    """
    ),
    "spanish": (
        """
        a al algo ante como con contra cual cuando de del desde donde dónde e el él ella ellas ellos en entre era es esa ese eso
        esta está estaba este esto fue ha había han has hay he la las le les lo los más me mi mis muy nada ni no nos nosotros o os
        otra otro para pero por porque que qué quien quién se ser si sí sido sin sobre son su sus también te tiene tu tus un una
        uno y ya yo
    """
    ),
    "swedish": (
        """
        alla att av bara blev blir de dem den denna deras dess det detta dig din du där då efter ej eller en er ett från för ha
        hade han hans har henne hennes hon honom hur här i icke in inte jag kan kunde man med men mig min mot mycket ni nu när
        någon något och om oss på sedan sig sin ska skulle som så till under upp ut vad var vara varför vem vi vid vilken än är
    """
    ),
}

ARTICLES: Final[dict[str, str]] = {
    "english": "a an the",
    "danish": "de den det en et",
    "dutch": "de een het",
    "french": "des l la le les un une",
    "german": "das dem den der des die ein eine einem einen einer eines",
    "italian": "gli i il l la le lo un una uno",
    "norwegian": "de den det en et",
    "portuguese": "a as o os um uma",
    "spanish": "el la las los un una",
    "swedish": "de den det en ett",
}
"""Words that change nothing about what a text says, where the language has such."""
assert set(ARTICLES) <= set(STOP_WORDS)
